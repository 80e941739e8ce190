"""Pages of all committed runs, for the site that ``make docs`` builds.

``python -m benchmarks.run_pages FOLDER`` writes them to ``FOLDER/<scale>/pages``.
"""

import sys
from pathlib import Path

from benchmarks.numbers import archive_of
from repro.report.build import write_pages
from repro.report.document import build_document
from repro.report.matrix import SCALES
from repro.report.render_html import PAGES


def main(folder: Path) -> None:
    """Write the pages of every scale to its folder below another one."""
    for scale in SCALES:
        archive = archive_of(scale)
        document = build_document(archive, ())
        write_pages(archive, document, archive.records, folder / scale / PAGES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
