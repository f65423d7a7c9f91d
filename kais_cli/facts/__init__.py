"""Facts: tables, detail views, output formats, import and export."""
