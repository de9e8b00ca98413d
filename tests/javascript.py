"""Node, where it is there, as the JavaScript engine of tests."""

import json
import shutil
import subprocess

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no JavaScript engine: install nodejs")


def run_javascript(script: str, folder):
    """What the last `print(value)` of a script wrote, as JSON; NaN and infinities as strings."""
    told = "const print = value => console.log(JSON.stringify(value, (_, v) =>\n"
    told += "  typeof v === 'number' && !Number.isFinite(v) ? String(v) : ArrayBuffer.isView(v) ? [...v] : v));\n"
    path = folder / "script.js"
    path.write_text(told + script)
    done = subprocess.run([NODE, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
