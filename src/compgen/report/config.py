"""What the report needs to know. Covers its configuration; what it contains is in `page.py`."""

from dataclasses import dataclass

from compgen.errors import require

PROFILES = ("smoke", "laptop", "paper")


@dataclass
class ReportJobConfig:
    """One report on one run tree."""

    run_directory: str = "outputs/manual"
    """The run tree."""
    run_name: str = "manual"
    profile: str = "laptop"
    reference_directory: str = "data/reference"
    """Where the claims stand."""
    reference_digest: str = ""
    """Digest of the claims and of how every job stands: a change of either makes the report stale."""

    def __post_init__(self) -> None:
        """Check what can be checked without reading a file."""
        require(bool(self.run_directory), "report.run_directory", self.run_directory, "must name a directory")
        require(bool(self.run_name), "report.run_name", self.run_name, "must not be empty")
        require(self.profile in PROFILES, "report.profile", self.profile, f"must be one of {', '.join(PROFILES)}")


JOBS: dict[str, type] = {"report": ReportJobConfig}
