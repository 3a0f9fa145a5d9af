"""The command line, table formats and the report; only this imports typer, rich, plotly and jinja2."""
