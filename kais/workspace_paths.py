"""Resolves the paths of `fileExists` checks, in Task and Service cells alike.

A relative path starts in the shared folder. `..` is resolved before symbolic links. A path outside
of the workspace, or a link that leads outside, is an error.
"""

import posixpath
from collections.abc import Sequence
from typing import Final

WORKSPACE: Final = "/workspace"
SHARED: Final = "shared"
OUTSIDE: Final = "not inside the workspace"

FIND_FILES = """
root=$(cd -P "$1" && pwd -P) || exit 2
shift
missing= outside=
while [ $# -gt 0 ]; do
  name=$1 path=$2
  shift 2
  links=0
  while [ -h "$path" ] && [ ! -d "$path" ]; do
    links=$((links + 1))
    [ $links -le 40 ] || break
    target=$(readlink "$path" 2>/dev/null) ||
      { echo "$name is a link, and the image has no readlink"; exit 2; }
    case $target in /*) path=$target ;; *) path=${path%/*}/$target ;; esac
  done
  if [ -d "$path" ]; then
    real=$(cd -P "$path" && pwd -P)
  else
    folder=$(cd -P "${path%/*}/" 2>/dev/null && pwd -P) || folder=${path%/*}
    real=$folder/${path##*/}
  fi
  case $real/ in
    "$root"/*) [ -e "$path" ] || missing="$missing, $name" ;;
    *) outside="$outside, $name" ;;
  esac
done
[ -z "$outside" ] || { echo "not inside the workspace: ${outside#, }"; exit 2; }
[ -z "$missing" ] || { echo "missing: ${missing#, }"; exit 1; }
"""
"""For `sh -c`: its arguments are the workspace, then each path as written and as resolved."""


def resolve_path(path: str, *, workspace: str = WORKSPACE) -> str | None:
    """Return the absolute path of a check's path; None if it is outside of the workspace."""
    absolute = posixpath.normpath(posixpath.join(workspace, SHARED, path))
    is_inside = absolute == workspace or absolute.startswith(f"{workspace}/")
    return absolute if is_inside else None


def outside_message(paths: Sequence[str]) -> str:
    """Return the message for paths outside of the workspace."""
    return f"{OUTSIDE}: {', '.join(paths)}"


def shell_command(paths: Sequence[str], *, workspace: str = WORKSPACE) -> list[str]:
    """Return the command that checks the paths in a container."""
    resolved = {path: resolve_path(path, workspace=workspace) for path in paths}
    outside = [path for path, resolved_path in resolved.items() if resolved_path is None]
    if outside:
        return ["sh", "-c", 'echo "$1"; exit 2', "sh", outside_message(outside)]
    path_arguments = [
        text for path, resolved_path in resolved.items() for text in (path, resolved_path or "")
    ]
    return ["sh", "-c", FIND_FILES, "sh", workspace, *path_arguments]
