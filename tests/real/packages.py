"""Packages of PyPI that carry photographs and sounds, and the files in them."""
import pathlib
import subprocess
import sys
import tarfile
import zipfile

# What is fetched, whether as a wheel, and which of its files are of use. Versions are fixed: the counts in reports stay
# comparable.
PACKAGES = [
    ("scikit-image", "0.26.0", True, ("skimage/data/",), (".png", ".jpg", ".gif", ".tif")),  # photographs
    ("scipy", "1.17.1", True, ("scipy/io/tests/data/",), (".wav",)),  # WAV files of every form, some damaged
    ("webrtcvad", "2.0.10", False, ("test-audio",), (".raw",)),  # speech, 8000 samples a second of 16 bits
    ("mutagen", "1.48.1", False, ("tests/data/",), ("",)),  # sounds with tags of every kind, some damaged
]


def fetch(cache, report):
    """The files by package: paths in the cache folder. A package that cannot be fetched has none."""
    found = {}
    for name, version, wheel, folders, ends in PACKAGES:
        folder = cache / "files" / f"{name}-{version}"
        if not folder.exists():
            file = download(cache / "packages", name, version, wheel)
            if file is None:
                report.skip(f"{name} {version} could not be fetched from PyPI")
                found[name] = []
                continue
            unpack(file, folder, folders, ends)
        found[name] = sorted(folder.iterdir())
    return found


def download(to, name, version, wheel):
    """The package's archive; None where it cannot be fetched."""
    to.mkdir(parents=True, exist_ok=True)
    form = ["--only-binary", ":all:"] if wheel else ["--no-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", to, *form, f"{name}=={version}"]
    if archive(to, name, version) is None:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return archive(to, name, version)


def archive(to, name, version):
    begins = f"{name}-{version}".replace("-", "_")
    return next((path for path in to.iterdir() if path.name.replace("-", "_").startswith(begins)), None)


def unpack(path, folder, folders, ends):
    """Writes the wanted files into a folder, all beside each other."""

    def wanted(name):
        return any(part in name for part in folders) and name.endswith(ends) and not name.endswith((".py", "/"))

    folder.mkdir(parents=True)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as file:
            for name in filter(wanted, file.namelist()):
                (folder / pathlib.PurePath(name).name).write_bytes(file.read(name))
        return
    with tarfile.open(path) as file:
        for member in file:
            if member.isfile() and wanted(member.name):
                (folder / pathlib.PurePath(member.name).name).write_bytes(file.extractfile(member).read())
