"""`esxcli system`, `vm` and `software`: the release, maintenance mode, modules and their parameters, VMs."""

from __future__ import annotations

import re

from switchlab.esxi.commands.tree import EsxCommand, Option, Options
from switchlab.esxi.formats.records import Answer, Value, single
from switchlab.esxi.model.drivers import MODULES, parse_options
from switchlab.esxi.model.host import Host, Refused

PARAMETER_COLUMNS = ("Name", "Type", "Value", "Description")
MODULE_COLUMNS = ("Name", "Is Loaded", "Is Enabled")
INSTALLED = "The update completed successfully, but the system needs to be rebooted for the changes to be effective."


def _version(host: Host, _options: Options) -> Answer:
    release = host.release
    fields: dict[str, Value] = {
        "Product": "VMware ESXi",
        "Version": release.version,
        "Build": f"Releasebuild-{release.build}",
        "Update": str(release.update),
        "Patch": str(release.patch),
    }
    return single("VersionGet", fields)


def _hostname(host: Host, _options: Options) -> Answer:
    name, _, domain = host.hostname.partition(".")
    return single("FQDN", {"Domain Name": domain, "Fully Qualified Domain Name": host.hostname, "Host Name": name})


def _maintenance(host: Host, _options: Options) -> str:
    return "Enabled\n" if host.maintenance else "Disabled\n"


def _set_maintenance(host: Host, options: Options) -> str:
    wanted = bool(options.truth("enable"))
    if wanted == host.maintenance:
        raise Refused(f"Maintenance mode is already {'enabled' if wanted else 'disabled'}.")
    if wanted and (running := [vm.name for vm in host.vms if vm.running]):
        raise Refused(f"Timed out waiting for virtual machines: {', '.join(running)}")
    host.maintenance = wanted
    host.save()
    return ""


def _modules(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [{"Name": name, "Is Loaded": True, "Is Enabled": True} for name in host.stored]
    return Answer(type_name="Module", structures=rows, columns=MODULE_COLUMNS)


def stored_module(host: Host, name: str) -> str:
    """Return the name of a module; refuse one that the host does not have."""
    if name not in host.stored:
        raise Refused(f"Unable to find module: {name}")
    return name


def _parameters(host: Host, options: Options) -> Answer:
    module = stored_module(host, options.text("module"))
    values = parse_options(host.stored[module])
    rows: list[dict[str, Value]] = [
        {
            "Name": parameter.name,
            "Type": parameter.type,
            "Value": values.get(parameter.name, ""),
            "Description": parameter.description,
        }
        for parameter in MODULES[module].parameters
    ]
    return Answer(type_name="ModuleParameter", structures=rows, columns=PARAMETER_COLUMNS)


def check_options(module: str, options: str) -> None:
    """Refuse options that a module does not have."""
    known = {parameter.name for parameter in MODULES[module].parameters}
    malformed = [word for word in options.split() if "=" not in word]
    unknown = [name for name in parse_options(options) if name not in known]
    if malformed or unknown:
        raise Refused(
            f"Unable to set module parameters the following params are invalid: {', '.join(malformed or unknown)}"
        )


def _set_parameters(host: Host, options: Options) -> str:
    """Store the whole string; with `-a`, what is stored stays in front of it."""
    module = stored_module(host, options.text("module"))
    text = options.text("parameter-string")
    if "force" not in options:
        check_options(module, text)
    before = host.stored[module] if "append" in options else ""
    host.store_options(module, f"{before} {text}".strip())
    return ""


def _vms(host: Host, _options: Options) -> Answer:
    running = [vm for vm in host.vms if vm.running]
    rows: list[dict[str, Value]] = [
        {
            "World ID": vm.world,
            "Process ID": 0,
            "VMX Cartel ID": vm.cartel,
            "UUID": vm.uuid,
            "Display Name": vm.name,
            "Config File": vm.path,
        }
        for vm in running
    ]
    return Answer(type_name="VirtualMachine", structures=rows, titles=[vm.name for vm in running])


def _install(host: Host, options: Options) -> Answer:
    path = options.text("viburl") or options.text("depot")
    name = re.sub(r"\.(vib|zip)$", "", path.rpartition("/")[2])
    if not name:
        raise Refused("Please specify a depot or a VIB URL.")
    host.needs_reboot = True
    fields: dict[str, Value] = {
        "Message": INSTALLED,
        "Reboot Required": True,
        "VIBs Installed": name,
        "VIBs Removed": "",
        "VIBs Skipped": "",
    }
    return single("InstallationResult", fields, heading="Installation Result")


MODULE = Option(short="m", long="module", help="The name of the VMkernel module.", required=True)
SET_OPTIONS = (
    Option(short="a", long="append", type="", help="Append the parameters to those that are stored."),
    Option(short="f", long="force", type="", help="Skip the check that the parameters exist."),
    MODULE,
    Option(short="p", long="parameter-string", help="The parameters, as one text.", required=True),
)
ENABLE = Option(short="e", long="enable", type="bool", help="Enter or leave maintenance mode.", required=True)
COMMANDS = (
    EsxCommand(words="system version get", handle=_version, help="Display the product name, version and build."),
    EsxCommand(words="system hostname get", handle=_hostname, help="Get the host's name."),
    EsxCommand(words="system maintenanceMode get", handle=_maintenance, help="Get the maintenance mode state."),
    EsxCommand(
        words="system maintenanceMode set",
        handle=_set_maintenance,
        options=(ENABLE,),
        help="Enable or disable the maintenance mode.",
        changes=True,
    ),
    EsxCommand(words="system module list", handle=_modules, help="List the VMkernel modules."),
    EsxCommand(
        words="system module parameters list",
        handle=_parameters,
        options=(MODULE,),
        help="List the parameters of a module as they are stored for the next boot.",
    ),
    EsxCommand(
        words="system module parameters set",
        handle=_set_parameters,
        options=SET_OPTIONS,
        help="Set the parameters of a module.",
        changes=True,
    ),
    EsxCommand(words="vm process list", handle=_vms, help="List the virtual machines that run."),
    EsxCommand(
        words="software vib install",
        handle=_install,
        options=(
            Option(short="d", long="depot", help="The depot."),
            Option(short="v", long="viburl", help="The VIB."),
        ),
        help="Install VIB packages.",
        changes=True,
    ),
)
