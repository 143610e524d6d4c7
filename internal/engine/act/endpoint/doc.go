// Package endpoint serves the metadata endpoint of a task inside the network namespaces of
// its containers, and writes their metadata files. In bridge mode it also adds the addresses
// there that Podman could not give a container. The owner of the task opens, resumes and
// closes it. The documents themselves come from internal/engine/facts/metadata.
package endpoint
