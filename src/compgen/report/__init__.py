"""Claims, verdicts, figures and the page. It reads finished outputs only and imports no domain."""
