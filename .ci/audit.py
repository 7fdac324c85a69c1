"""Ask for known vulnerabilities of the packages in an environment, and say what was not asked.

    python .ci/audit.py SITE_PACKAGES [options of pip-audit]

pip-audit itself passes over a package that its service does not know, and ends well even where it
passed over all of them, as behind a mirror without the service. Here the end is 0 if each package
was audited and has no known vulnerability, 1 if one has, 2 if one could not be audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

OURS = "hippo-core"
ELSEWHERE = "another service can be named in PIP_AUDIT_VULNERABILITY_SERVICE: pypi, osv or esms"


def main(site_packages: str, *options: str) -> int:
    """Audit what is installed in a folder; give the exit code."""
    command = [sys.executable, "-m", "pip_audit", "--path", site_packages, "--format", "json"]
    command += ["--skip-editable", "--progress-spinner", "off", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"audit: NOT DONE: pip-audit failed, as where its service does not answer: {last}")
        print(f"audit: {ELSEWHERE}")
        return 2
    return report([package for package in found if package["name"] != OURS])


def report(packages: list[dict[str, Any]]) -> int:
    """Print what was found about each package, and what could not be; give the exit code."""
    skipped = [p for p in packages if "skip_reason" in p]
    vulnerable = [p for p in packages if p.get("vulns")]
    for package in vulnerable:
        for known in package["vulns"]:
            fixed = ", ".join(known["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {known['id']}, fixed in {fixed}")
    audited = len(packages) - len(skipped)
    if not audited:
        print(f"audit: NOT DONE: the service knows none of {len(packages)} packages, as where it")
        print(f"audit: cannot be reached; {ELSEWHERE}")
        return 2
    print(f"audit: {len(vulnerable)} of {audited} packages have known vulnerabilities")
    if skipped:
        print(f"audit: INCOMPLETE: not audited: {', '.join(p['name'] for p in skipped)}")
    return 1 if vulnerable else 2 if skipped else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if sys.argv[1:] else __doc__)
