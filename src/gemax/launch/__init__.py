"""Where runs execute: in this process, on several devices, in worker processes, or on a Ray cluster."""
