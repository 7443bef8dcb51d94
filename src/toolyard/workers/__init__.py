"""Work that may take all the time and memory there is, in processes of its own with an end to both.

`pool` starts the processes, gives them work and ends them; `serving` is what runs in one of them; `shares`
divides their number among those who ask. Owns no work: a request and an answer are bytes.
"""
