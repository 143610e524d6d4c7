module podman-crash

go 1.21
