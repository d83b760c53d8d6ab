"""`gemax view`: a local web page of runs. It reads run directories and writes nothing but the file of `--export`."""
