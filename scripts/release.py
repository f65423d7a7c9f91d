"""Publish images and charts to an OCI registry, signed, and with an SBOM of each image.

Usage: python3 -m scripts.release REGISTRY [NAME...] [--key FILE] [--platform PLATFORM]...

A NAME is that of an image, or `charts`; without names all are published. The workflow release.yaml
and `make release` run this file, with programs built from the pinned modules of kais_cluster. It
needs only Python's library and buildah.

Without `--key`, cosign signs with the identity of the workflow or person and writes to the public
log of Sigstore. With `--key`, the services of Sigstore are not used: the configurations that would
name them are empty.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kais_cluster import errors, image_catalog, settings, subprocesses
from kais_cluster.host import component_builds
from kais_cluster.host.image_builds import BuildahBuilder

CHARTS = ("kais-crds", "kais")
TOOLS = ("crane", "cosign", "syft", "helm")
PUBLISHED_IMAGES = tuple(image for image in image_catalog.IMAGES if image.name != "model-server")
"""All our images but that of the tests."""
_IDENTITY_VARIABLES = {"SIGSTORE_ID_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"}
"""Where cosign finds an identity without a person: a token, or GitHub's service for tokens."""
_LOCAL_IMAGE = re.compile(r"\blocalhost/kais/([a-z-]+)$", re.MULTILINE)


class InvalidRelease(Exception):
    """A release that must not be published; the text is a message for the user."""


@dataclass(frozen=True)
class Release:
    """One version in one registry, and how it is signed."""

    source: image_catalog.Checkout
    registry: str
    """Host and path in small letters, such as `ghcr.io/you/kais`."""
    programs: Path
    """The folder of crane, cosign, syft and helm."""
    key: str = ""
    """Where cosign finds the private key; empty to sign with an identity."""
    plain_http: bool = False
    report: subprocesses.Reporter = subprocesses.print_line

    def publish_image(
        self, image: image_catalog.Image, builder: BuildahBuilder, platforms: Sequence[str]
    ) -> str:
        """Build, push and sign an image, attest its SBOM, and return its name with its digest.

        Raises:
            CommandFailed: A step failed; nothing is signed that was not pushed.
        """
        name = f"{self.registry}/{image.name}"
        reference = f"{name}:{self.source.version}"
        with image_catalog.context(self.source) as folder:
            builder.build_index(
                folder,
                reference,
                folder / image.dockerfile,
                platforms=platforms,
                arguments={"VERSION": self.source.version},
            )
        digest = builder.push_index(reference, plain_http=self.plain_http)
        published = f"{name}@{digest}"
        self._cosign("sign", published, "--recursive")
        for platform in self._platforms(published):
            self._attest_sbom(published, platform)
        self.report(f"published {reference} as {digest}")
        return published

    def publish_charts(self) -> list[str]:
        """Package, push and sign both charts, and return their names with their digests.

        The published chart names the published images, so it installs without further values.

        Raises:
            CommandFailed: A step failed; nothing is signed that was not pushed.
        """
        return [self._publish_chart(chart) for chart in CHARTS]

    def _publish_chart(self, chart: str) -> str:
        version = self.source.version
        with tempfile.TemporaryDirectory(prefix="kais-chart-") as scratch:
            folder = Path(scratch) / chart
            shutil.copytree(self.source.root / "charts" / chart, folder)
            values = folder / "values.yaml"
            if values.exists():
                values.write_text(published_values(values.read_text(), self.registry))
            versions = ["--version", version, "--app-version", version]
            self._run("helm", "package", folder, *versions, "--destination", scratch)
            archive = Path(scratch) / f"{chart}-{version}.tgz"
            options = ["--plain-http"] * self.plain_http
            self._run("helm", "push", archive, f"oci://{self.registry}/charts", *options)
        name = f"{self.registry}/charts/{chart}"
        published = f"{name}@{self._crane('digest', f'{name}:{version}').strip()}"
        self._cosign("sign", published)
        self.report(f"published {name}:{version} as {published.partition('@')[2]}")
        return published

    def _platforms(self, published: str) -> list[str]:
        """Return the platforms of an index, such as `linux/amd64`."""
        entries = json.loads(self._crane("manifest", published))["manifests"]
        return [f"{it['platform']['os']}/{it['platform']['architecture']}" for it in entries]

    def _attest_sbom(self, published: str, platform: str) -> None:
        """Describe the image of one platform, and attach the SBOM to the index as an attestation.

        One digest to verify answers for all platforms; the SBOM names its own.
        """
        name = published.partition("@")[0]
        with tempfile.TemporaryDirectory(prefix="kais-sbom-") as scratch:
            sbom = Path(scratch) / "sbom.spdx.json"
            self._run(
                "syft",
                *("scan", f"registry:{published}", "--platform", platform),
                *("--source-name", name, "--source-version", f"{self.source.version} {platform}"),
                *("--output", f"spdx-json={sbom}"),
                env={
                    "SYFT_REGISTRY_INSECURE_USE_HTTP": str(self.plain_http).lower(),
                    "SYFT_CHECK_FOR_APP_UPDATE": "false",
                },
            )
            self._cosign("attest", published, "--type", "spdxjson", "--predicate", sbom)

    def _cosign(self, action: str, published: str, *options: object) -> None:
        """Sign or attest; with a key nothing is sent to the services of Sigstore."""
        arguments: list[object] = [action, "--yes", *options]
        arguments += ["--allow-http-registry"] * self.plain_http
        with tempfile.TemporaryDirectory(prefix="kais-cosign-") as scratch:
            if self.key:
                arguments += ["--key", self.key]
                for setting in ("signing-config", "trusted-root"):
                    file = Path(scratch) / f"{setting}.json"
                    self._run("cosign", setting, "create", "--out", file)
                    arguments += [f"--{setting}", file]
            self._run("cosign", *arguments, published)

    def _crane(self, *arguments: object) -> str:
        return self._run("crane", *arguments, *["--insecure"] * self.plain_http)

    def _run(self, program: str, *arguments: object, env: Mapping[str, str] | None = None) -> str:
        return subprocesses.run([self.programs / program, *arguments], env=env)


def published_values(values: str, registry: str) -> str:
    """Return the values of a chart with our images in a registry in place of this machine's.

    Raises:
        InvalidRelease: The values name an image that no release publishes.
    """
    names = {image.name for image in PUBLISHED_IMAGES}
    if unpublished := sorted(set(_LOCAL_IMAGE.findall(values)) - names):
        raise InvalidRelease(f"the chart names images without a release: {', '.join(unpublished)}")
    replaced = _LOCAL_IMAGE.sub(rf"{registry}/\1", values)
    if "localhost/" in replaced:
        raise InvalidRelease("the values of the chart still name an image of localhost")
    return replaced


def check_tag(tag: str, version: str) -> None:
    """Refuse a tag of another version; an empty tag is none.

    Raises:
        InvalidRelease: The tag is not `v` and the version.
    """
    if tag and tag != f"v{version}":
        raise InvalidRelease(f"the tag is {tag}, and pyproject.toml has version {version}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    root = argparse.ArgumentParser(prog="python3 -m scripts.release")
    root.add_argument("registry", help="host and path, such as ghcr.io/you/kais")
    root.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        choices=[[], "charts", *(image.name for image in PUBLISHED_IMAGES)],
        help="an image, or charts; default: all",
    )
    root.add_argument("--key", default="", help="private key of cosign; default: an identity")
    root.add_argument("--tag", default="", help="refuse any version but that of this Git tag")
    root.add_argument(
        "--platform",
        action="append",
        default=[],
        help="such as linux/arm64; default: that of this machine",
    )
    root.add_argument(
        "--base",
        choices=["registry", "debian"],
        default="registry",
        help="pull the Python image, or build one from Debian packages, which needs root",
    )
    root.add_argument("--plain-http", action="store_true", help="for a registry without TLS")
    return root


def builder_for(base: str) -> BuildahBuilder:
    """Return buildah with a base image that is pulled, or is built from Debian packages."""
    storage = settings.images_dir()
    if base == "debian":
        return BuildahBuilder(storage)
    return BuildahBuilder(storage.with_name("release-images"), pulls_base=True)


def publish(options: argparse.Namespace) -> None:
    """Publish what the arguments name, images first, because the chart names them.

    Raises:
        ClusterError: A program is missing, or a step failed.
        InvalidRelease: The release must not be published.
    """
    source = image_catalog.checkout()
    check_tag(options.tag, source.version)
    if not options.registry.strip("/"):
        raise InvalidRelease("name a registry, such as ghcr.io/you/kais")
    if not options.key and not _IDENTITY_VARIABLES & settings.environment().keys():
        raise InvalidRelease(
            "there is nothing to sign with: name a private key of cosign with --key (make: KEY=), "
            "or put an identity token into SIGSTORE_ID_TOKEN"
        )
    component_builds.build(component_builds.by_name(TOOLS), settings.binaries_dir())
    # Registries refuse capitals, which the names of GitHub's owners may have.
    registry = options.registry.lower().rstrip("/")
    release = Release(
        source, registry, settings.binaries_dir(), options.key, plain_http=options.plain_http
    )
    builder = builder_for(options.base)
    images = [it for it in PUBLISHED_IMAGES if not options.names or it.name in options.names]
    if images:
        builder.make_base()
    for image in images:
        release.publish_image(image, builder, options.platform)
    if not options.names or "charts" in options.names:
        release.publish_charts()


def main(argv: Sequence[str]) -> int:
    """Run the release and return its exit status."""
    options = parser().parse_intermixed_args(argv)  # `make release` names images after its options
    try:
        publish(options)
    except (errors.ClusterError, InvalidRelease) as exc:
        sys.stderr.write(f"release: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
