# The parts of others in our binaries, from the table of THIRD-PARTY.md: as an SPDX document, or their licences as files.
#   parts.py spdx   {packages|wheel} VERSION > FILE     versions are those of the Debian packages installed here
#   parts.py licences {packages|wheel} FOLDER           one file for each contained part
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

TABLE = pathlib.Path(__file__).resolve().parent.parent / "THIRD-PARTY.md"
COLUMNS = {"packages": "In Debian's packages", "wheel": "In the wheel"}


def parts(binary):
    """Rows of the table: dictionaries by its columns, and `how` the part is in this binary."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in TABLE.read_text().splitlines() if line.startswith("|")]
    header, rows = rows[0], [dict(zip(rows[0], row)) for row in rows[2:]]
    assert COLUMNS[binary] in header, header
    for row in rows:
        row["how"] = row[COLUMNS[binary]]
        assert row["how"] in ("linked", "contained"), row
    return rows


def version(package):
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=True, capture_output=True,
                          text=True).stdout


def spdx(binary, ours):
    """SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/)."""
    licence = "Apache-2.0 WITH LLVM-exception"
    packages = [{"SPDXID": "SPDXRef-Sectile", "name": "sectile", "versionInfo": ours, "licenseDeclared": licence,
                 "licenseConcluded": licence, "downloadLocation": "NOASSERTION", "filesAnalyzed": False}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": "SPDXRef-Sectile"}]
    for row in parts(binary):
        name = "SPDXRef-" + "".join(c if c.isalnum() else "-" for c in row["Part"])
        found = version(row["Debian package"])
        packages.append({"SPDXID": name, "name": row["Part"], "versionInfo": found, "licenseDeclared": row["Licence"],
                         "licenseConcluded": row["Licence"], "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:deb/debian/{row['Debian package']}@{found}"}]})
        relations.append({"spdxElementId": "SPDXRef-Sectile",
                          "relationshipType": {"linked": "DYNAMIC_LINK", "contained": "STATIC_LINK"}[row["how"]],
                          "relatedSpdxElement": name})
    # The same parts have the same document, whenever it is made.
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    identity = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"sectile-{ours}-{binary}", "documentNamespace": f"urn:sha256:{identity}",
            "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: packaging/parts.py"]},
            "packages": packages, "relationships": relations}


def licences(binary, folder):
    os.makedirs(folder, exist_ok=True)
    for row in parts(binary):
        if row["how"] == "contained":
            shutil.copyfile(f"/usr/share/doc/{row['Debian package']}/copyright",
                            os.path.join(folder, row["Part"] + ".txt"))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["spdx", ("packages" | "wheel") as binary, ours]:
            json.dump(spdx(binary, ours), sys.stdout, indent=2)
            print()
        case ["licences", ("packages" | "wheel") as binary, folder]:
            licences(binary, folder)
        case _:
            sys.exit("usage: parts.py spdx {packages|wheel} VERSION | parts.py licences {packages|wheel} FOLDER")
