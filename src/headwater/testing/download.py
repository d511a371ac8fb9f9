"""Maven artefacts without Maven: PySpark ships Ivy, and Ivy finds them.

Knows where downloads are kept and how to get one; what is inside is the business of whoever asked. Names
no repository: Ivy's own default is used, or the settings file that HEADWATER_IVY_SETTINGS points at.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headwater.errors import Retry, Usage

CACHE = "HEADWATER_CACHE"
IVY_SETTINGS = "HEADWATER_IVY_SETTINGS"


@dataclass(frozen=True)
class Artifact:
    """One artefact, with what it depends on when `transitive`. `size` is said before downloading it."""

    group: str
    name: str
    version: str
    size: str
    type: str = "jar"
    classifier: str = ""
    transitive: bool = False

    def __str__(self) -> str:
        return ":".join(filter(None, [self.group, self.name, self.version, self.classifier]))


def cache_folder() -> Path:
    """Where downloads stay: HEADWATER_CACHE, or `headwater` in the user's cache folder."""
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE]).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"


def fetch(artifact: Artifact) -> Path:
    """The folder that holds the artefact's files; downloaded at the first call.

    It appears whole or not at all: an interrupted download leaves only a temporary name behind."""
    done = cache_folder() / "maven" / artifact.group / artifact.name / (artifact.version + artifact.classifier)
    if done.is_dir():
        return done
    sys.stderr.write(f"downloading {artifact} ({artifact.size}) into {cache_folder()}\n")
    done.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=done.parent) as part:
        files = Path(part) / "files"
        _run_ivy(artifact, files, Path(part))
        put_in_place(files, done)
    return done


def put_in_place(made: Path, done: Path) -> None:
    """Give a finished folder its name. Another process may have been first: then its copy is as good."""
    try:
        made.rename(done)
    except OSError:
        if not done.is_dir():
            raise


def _run_ivy(artifact: Artifact, files: Path, work: Path) -> None:
    module = work / "ivy.xml"
    module.write_text(_ivy_module(artifact), encoding="utf-8")
    command = [java(), "-jar", str(_ivy_jar()), "-warn", "-cache", str(work / "cache"), "-ivy", str(module)]
    if os.environ.get(IVY_SETTINGS):
        command += ["-settings", os.environ[IVY_SETTINGS]]
    command += ["-confs", "default", "-types", artifact.type, *(["bundle"] if artifact.type == "jar" else [])]
    command += ["-retrieve", f"{files}/[artifact]-[revision](-[classifier]).[ext]"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode or not files.is_dir():
        raise Retry(
            f"{artifact} could not be downloaded",
            f"behind a mirror: let {IVY_SETTINGS} point at an Ivy settings file",
            cause=ran.stdout.strip()[-1000:],
        )


def _ivy_module(artifact: Artifact) -> str:
    """What Ivy is asked for. An ivy.xml, because the command line knows neither types nor classifiers."""
    wanted = ""
    if not artifact.transitive:
        kind = quoteattr(artifact.type)
        classifier = f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
        wanted = f"<artifact name={quoteattr(artifact.name)} type={kind} ext={kind}{classifier}/>"
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="headwater" module="fetch"/>'
        '<configurations><conf name="default"/></configurations>'
        "<dependencies>"
        f"<dependency org={quoteattr(artifact.group)} name={quoteattr(artifact.name)} "
        f'rev={quoteattr(artifact.version)} conf="default->default" transitive="{str(artifact.transitive).lower()}">'
        f"{wanted}</dependency></dependencies></ivy-module>"
    )


def java() -> str:
    """The Java that everything here runs with: JAVA_HOME's, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise Usage("Java was not found", "install a JRE 17 or newer, or let JAVA_HOME point at one")
    return found


def _ivy_jar() -> Path:
    found = importlib.util.find_spec("pyspark")
    jars = Path(found.submodule_search_locations[0], "jars") if found and found.submodule_search_locations else None
    for jar in sorted(jars.glob("ivy-*.jar")) if jars else []:
        return jar
    raise Usage("no Ivy: it comes with PySpark, which is not installed", "pip install 'headwater[spark]'")
