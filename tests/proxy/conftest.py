"""The proxy's tests need the extra [proxy]; without torch none of them is collected."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
