"""The commands of esxcli by their words, and their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from switchlab.esxi.formats.records import Answer
from switchlab.esxi.model.host import Host
from switchlab.esxi.model.release import Release

TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


class Mistaken(Exception):
    """A command line that esxcli does not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    short: str
    long: str
    type: str = "str"
    """`str`, `long`, `bool`, or empty for a flag without a value."""
    help: str = ""
    required: bool = False

    @property
    def usage(self) -> str:
        """As the help of esxcli lists it."""
        value = f"=<{self.type}>" if self.type else ""
        return f"-{self.short}|--{self.long}{value} {self.help}{' (required)' if self.required else ''}"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a command line gives, by their long name."""

    values: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def truth(self, name: str) -> bool | None:
        """Return a truth value; None if the option is not there."""
        return None if name not in self.values else self.values[name].lower() in TRUE


Handler = Callable[[Host, Options], "Answer | str"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxCommand:
    words: str
    handle: Handler
    help: str
    options: tuple[Option, ...] = ()
    changes: bool = False
    exists: Callable[[Release], bool] = lambda _: True

    @property
    def usage(self) -> str:
        """What esxcli prints for `--help`, or after a mistake."""
        name = self.words.rpartition(" ")[2]
        lines = [f"Usage: esxcli {self.words} [cmd options]", "", "Description: ", f"  {name:<22}{self.help}"]
        lines += ["", "Cmd options:", *(f"  {option.usage}" for option in self.options)]
        return "".join(f"{line}\n" for line in lines)

    def parse(self, arguments: Sequence[str]) -> Options:
        """Read `-n vmnic3`, `-n=vmnic3`, `--nic-name vmnic3` and `--nic-name=vmnic3`."""
        values: dict[str, str] = {}
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            option = next((item for item in self.options if name in (f"-{item.short}", f"--{item.long}")), None)
            if option is None:
                raise Mistaken(f"Error: Invalid option {name}\n\n{self.usage}")
            if option.type and not equals:
                if not rest:
                    raise Mistaken(f"Error: Option {name} requires an argument\n\n{self.usage}")
                value = rest.pop(0)
            if option.type == "bool" and value.lower() not in (*TRUE, *FALSE):
                raise Mistaken(f"Error: Invalid value for option {name}: {value}\n\n{self.usage}")
            values[option.long] = value
        for option in self.options:
            if option.required and option.long not in values:
                raise Mistaken(f"Error: Missing required parameter -{option.short}|--{option.long}\n\n{self.usage}")
        return Options(values)


NIC = Option(short="n", long="nic-name", help="The name of the NIC.", required=True)
