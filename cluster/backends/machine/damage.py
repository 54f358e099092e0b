"""The program that damages and restores the files of a dead node (`run_program`).

What is replaced is kept in a folder beside, one numbered file for each damage with a JSON line that
says what it was, so that a restore puts everything back in reverse order.
"""

SOURCE = """
import os, shutil
folder, saved, verb = argument["folder"], argument["saved"], argument["verb"]

def listed():
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            if not name.startswith(".kraftprobe-") and name != ".lock":
                found[path] = os.path.getsize(os.path.join(place, name))
    return dict(sorted(found.items()))

def keep(line, data):
    os.makedirs(saved, exist_ok=True)
    number = len(os.listdir(saved)) // 2
    with open(os.path.join(saved, "%06d.bytes" % number), "wb") as file:
        file.write(data)
    with open(os.path.join(saved, "%06d.json" % number), "w") as file:
        json.dump(line, file)

def whole(path):
    with open(os.path.join(folder, path), "rb") as file:
        return file.read()

def put(path, data):
    place = os.path.join(folder, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    file = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(file, 0)
    view = memoryview(data)
    while view:
        view = view[os.write(file, view):]
    os.fsync(file)
    os.close(file)
    sync_folder(os.path.dirname(place))

def sync_folder(place):
    handle = os.open(place, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)

if verb == "list":
    answer(listed())
elif verb == "read":
    answer(whole(argument["path"]).hex())
elif verb == "bit-flip":
    path, position = argument["path"], argument["position"]
    data = bytearray(whole(path))
    old = bytes(data[position:position + 1])
    keep({"path": path, "position": position, "size": len(data)}, old)
    file = os.open(os.path.join(folder, path), os.O_RDWR)
    os.pwrite(file, bytes([data[position] ^ 1]), position)
    os.fsync(file)
    os.close(file)
    answer(None)
elif verb == "truncate":
    path, position = argument["path"], argument["position"]
    data = whole(path)
    keep({"path": path, "position": position, "size": len(data)}, data[position:])
    file = os.open(os.path.join(folder, path), os.O_RDWR)
    os.ftruncate(file, position)
    os.fsync(file)
    os.close(file)
    answer(None)
elif verb == "wipe":
    for path in listed():
        keep({"path": path, "position": 0, "size": None}, whole(path))
        os.unlink(os.path.join(folder, path))
        sync_folder(os.path.dirname(os.path.join(folder, path)))
    for name in os.listdir(folder):
        if os.path.isdir(os.path.join(folder, name)):
            shutil.rmtree(os.path.join(folder, name))
    answer(None)
elif verb == "restore":
    numbers = os.listdir(saved) if os.path.isdir(saved) else []
    numbers = sorted({name.split(".")[0] for name in numbers})
    wiped = False
    for number in reversed(numbers):
        with open(os.path.join(saved, number + ".json")) as file:
            line = json.load(file)
        with open(os.path.join(saved, number + ".bytes"), "rb") as file:
            old = file.read()
        if line["size"] is None and not wiped:
            wiped = True
            for path in listed():
                os.unlink(os.path.join(folder, path))
        if line["size"] is None:
            data = old
        else:
            there = os.path.exists(os.path.join(folder, line["path"]))
            data = whole(line["path"]) if there else b""
            after = line["position"] + len(old)
            rest = data[after:] if after < line["size"] else b""
            data = data[:line["position"]].ljust(line["position"], b"\\0") + old + rest
        put(line["path"], data)
    shutil.rmtree(saved, ignore_errors=True)
    answer(len(numbers))
elif verb == "give-up":
    shutil.rmtree(saved, ignore_errors=True)
    answer(None)
else:
    raise SystemExit("unknown verb " + verb)
"""
