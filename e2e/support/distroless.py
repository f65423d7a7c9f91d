"""An image of one static program and nothing else: no shell, no libraries, no user database."""

import os
import subprocess
from pathlib import Path

from kais_cluster import operations
from kais_cluster.host import pause

IMAGE = "localhost/kais-e2e/distroless:1"
_SOURCE = Path(__file__).parents[1] / "distroless"


def load(folder: Path) -> str:
    """Build the program with the Go toolchain that is here, and load its image into the cluster."""
    binary, archive = folder / "cell", folder / "cell.tar"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(binary), "."],
        cwd=_SOURCE,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"},
        check=True,
        timeout=300,
    )
    pause.write_archive(binary, archive, image=IMAGE, program="cell")
    operations.load_image(archive, name=IMAGE)
    return IMAGE
