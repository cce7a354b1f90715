"""Word, Excel, PowerPoint, OpenDocument and EPUB files: XML in a ZIP file."""
