"""The Kubernetes API: the client, and the ports that it implements.

The operator uses `kubernetes.aio` alone, but Python runs a package before its modules, and
`kubernetes` imports the synchronous client with google-auth, requests and oauthlib: 17 MiB. So the
package is registered without being run. Its modules are imported as usual.
"""

import importlib.util
import sys


def _register_package(name: str) -> None:
    """Register a package that is not imported yet; only its `__path__` is needed."""
    specification = importlib.util.find_spec(name)
    if name not in sys.modules and specification is not None:
        sys.modules[name] = importlib.util.module_from_spec(specification)


_register_package("kubernetes")
