"""The training Python and its PyTorch: versions, CUDA or ROCm build, GPU architectures; and libraries for tuning.

Importing torch takes seconds, so versions are read from its files. Only if an NVIDIA driver is loaded is torch
imported, in a separate process with a time limit, for the GPU architectures it was built for. No GPU is touched.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.text import ONLY_INSTALLED, Fields, json_value, python_words, quote_path

IMPORT_SECONDS = 25
TUNING = ("bitsandbytes", "peft", "transformers")
"""Libraries that only tuning existing models needs."""
SCRIPT = f"""
{ONLY_INSTALLED}
import os

def torch_folder():
    folders = (os.path.join(folder, "torch") for folder in sys.path)
    return next((folder for folder in folders if os.path.isfile(os.path.join(folder, "version.py"))), None)

def of_version_file(name, text):
    import re  # imported where needed: most nodes are asked for nothing but the version of Python
    match = re.search(r"^" + name + r"\\b[^=\\n]*=\\s*(['\\"])(.*?)\\1", text, re.M)
    return match.group(2) if match else None

def versions(names):
    result = {{}}
    for folder in reversed(sys.path):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            library, _, version = name[:-len(".dist-info")].partition("-")
            if name.endswith(".dist-info") and library in names:
                result[library] = version
    return result

def ask_torch(facts):
    import subprocess
    code = "{ONLY_INSTALLED}; import torch; print(torch._C._cuda_getArchFlags() or '')"
    try:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout={IMPORT_SECONDS}, universal_newlines=True)
    except subprocess.TimeoutExpired:
        return
    if done.returncode == 0:
        facts["architectures"] = done.stdout.split()
    else:
        facts["import_error"] = (done.stderr.strip().splitlines() or ["exit %d" % done.returncode])[-1]

facts = {{"python": "%d.%d.%d" % sys.version_info[:3]}}
folder = torch_folder()
if folder:
    with open(os.path.join(folder, "version.py")) as file:
        text = file.read()
    facts["torch"] = of_version_file("__version__", text)
    facts["cuda"] = of_version_file("cuda", text)
    facts["rocm"] = of_version_file("hip", text)
    facts["libraries"] = versions({TUNING!r})
    if facts["cuda"] and os.path.exists("/proc/driver/nvidia/version"):
        ask_torch(facts)
    import json
    print(json.dumps(facts))
else:
    print('{{"python": "%s"}}' % facts["python"])
"""
ARCHITECTURE = re.compile(r"(?:sm|compute)_\d{2,3}[af]?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The training Python, and its PyTorch."""

    python: str | None
    """Version of the interpreter; None if the cluster file's `python` is not on the machine."""
    torch: str | None = None
    """Version of PyTorch with its local part (`2.11.0+cu130`); None if it is not installed."""
    cuda: str | None = None
    """CUDA version it was built with; None for CPU and ROCm builds."""
    rocm: str | None = None
    architectures: tuple[str, ...] | None = None
    """GPU architectures in the build (`sm_90`, `compute_90`); None if they were not queried."""
    import_error: str | None = None
    """The error of `import torch`, if it failed."""
    libraries: dict[str, str] | None = None
    """Versions of the libraries that tuning needs, as far as they are installed; None if they were not looked for."""

    @property
    def release(self) -> str | None:
        """The version without its local part, which depends on where the wheel came from."""
        return self.torch.partition("+")[0] if self.torch else None

    @property
    def build(self) -> str:
        """The platform of the build: `CUDA 13.0`, `ROCm 6.4`, `CPU`."""
        if self.cuda:
            return f"CUDA {self.cuda}"
        return f"ROCm {self.rocm}" if self.rocm else "CPU"


def command(cluster: Cluster, node: str) -> str:
    """Return the command for a node's training Python; a missing Python is a fact as well."""
    words = cluster.interpreter_of(node)
    return f"""
if command -v {quote_path(words[0])} >/dev/null 2>&1; then exec {python_words(words)} -c {shlex.quote(SCRIPT)}; fi
echo '{{"python": null}}'
"""


def parse(text: str) -> Torch:
    """Read the script's JSON."""
    fields = Fields(json_value(text))
    if "python" not in fields:
        raise ParseError("no field 'python'", line=text.strip()[:80])
    architectures = fields.texts("architectures") if "architectures" in fields else None
    for name in architectures or ():
        if not ARCHITECTURE.fullmatch(name):
            raise ParseError("expected a GPU architecture", line=name)
    return Torch(
        python=fields.optional_text("python"),
        torch=fields.optional_text("torch"),
        cuda=fields.optional_text("cuda"),
        rocm=fields.optional_text("rocm"),
        architectures=tuple(architectures) if architectures else None,
        import_error=fields.optional_text("import_error"),
        libraries=_libraries(fields.sub("libraries")),
    )


def _libraries(fields: Fields | None) -> dict[str, str] | None:
    return None if fields is None else {name: fields.text(name) for name in TUNING if name in fields}


PROBE = Probe(
    name="torch",
    title="the training Python, PyTorch, its CUDA and GPU architectures, libraries for tuning",
    command=command,
    parse=parse,
    facts=Torch,
    timeout=IMPORT_SECONDS + 10.0,
    one_line=True,
)
