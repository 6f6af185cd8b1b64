"""The vocabulary of places: the project, its outputs, and the files beside a job's directory."""

from dataclasses import dataclass
from pathlib import Path

from compgen.errors import UserError


def project_root() -> Path:
    """The checkout that holds conf/ and pipelines/.

    Raises:
        UserError: the package was installed without its checkout and the current directory is none either.
    """
    for candidate in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (candidate / "conf" / "config.yaml").is_file():
            return candidate
    raise UserError("no conf/config.yaml beside the package or here: run compgen from its checkout")


@dataclass(frozen=True)
class JobPaths:
    """Where one job's files lie: the finished directory and what stands beside it while it is made."""

    final: Path

    @property
    def partial(self) -> Path:
        """The directory in which the job works; renamed to `final` as the very last step."""
        return self.final.with_name(self.final.name + ".partial")

    @property
    def replaced(self) -> Path:
        """Where the former finished directory goes for the instant in which it is replaced."""
        return self.final.with_name(self.final.name + ".replaced")

    @property
    def lock(self) -> Path:
        """Held by the process that writes; the operating system releases it when that process dies."""
        return self.final.with_name(f".{self.final.name}.lock")

    @property
    def started(self) -> Path:
        """What the work in `partial` is for: fingerprint, process, start time."""
        return self.partial / "started.json"

    @property
    def failure(self) -> Path:
        """Why the last attempt failed, in one line."""
        return self.partial / "failure.json"

    @property
    def resume(self) -> Path:
        """The checkpoint of a long job; removed when the job finishes."""
        return self.partial / "resume.pt"

    @property
    def tracking(self) -> Path:
        """What W&B stores of the job: outside the finished directory, which nobody writes to."""
        return self.final.parent / ".wandb" / self.final.name


def check_writable_path(path: Path) -> None:
    """Raise UserError unless `path` can be named in UTF-8 text and its nearest existing parent can be written to."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        shown = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
        raise UserError(f"out={shown}: the path is not valid UTF-8: rename the directory or set RUN") from error
