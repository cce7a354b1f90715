"""The tool `web_search`: services that search the web, and the pages that they find."""
