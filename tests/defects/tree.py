"""The copy of the tree into which deliberate defects are put, in cargo's target folder."""
import os
import shutil
import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent.parent
BASE = Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")).resolve() / "defects"
COPY = BASE / "tree"


def copy_tree():
    """Copies what git knows. Files that are the same keep their times, so little is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=TREE, check=True, stdout=subprocess.PIPE).stdout
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    names = {name for name in names if (TREE / name).is_file()}
    for name in names:
        source, target = TREE / name, COPY / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
    for folder, _, files in os.walk(COPY):
        for file in files:
            path = Path(folder) / file
            if str(path.relative_to(COPY)) not in names:
                path.unlink()


def applies(defect):
    path = TREE / defect["file"]
    return path.is_file() and path.read_text().count(defect["find"]) == 1
