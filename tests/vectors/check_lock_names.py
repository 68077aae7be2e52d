"""Checks lock_names.py against the vectors: `check_lock_names.py lock-names.json`."""

import json
import sys

import lock_names


def outcome(make, times):
    try:
        name = make()
    except lock_names.InvalidName as flaw:
        return {"error": str(flaw)}
    return {"path": lock_names.path(name)} if times == 1 else {"length": len(name.encode())}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        vectors = json.load(file)
    wrong, count = 0, 0
    for vector in vectors["literals"] + vectors["patterns"]:
        times = vector.get("times", 1)
        if "name" in vector:
            got = outcome(lambda: lock_names.literal(vector["name"] * times), times)
        else:
            parts = [part * (times if at % 2 else 1) for at, part in enumerate(vector["parts"])]
            got = outcome(lambda: lock_names.pattern(*parts), times)
        count += 1
        if any(vector.get(key) != got.get(key) for key in ("path", "length", "error")):
            wrong += 1
            print(f"wrong: {vector} gave {got}")
    print(f"{count} vectors, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
