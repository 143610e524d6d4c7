// Package toolfile has what the readers of files of other tools share: a Reader, which opens and parses files, collects problems, losses
// and values that are missing, and builds values with places; tables of the decisions about members; and the command lines of a service,
// a schedule and their scaling. Each tool has a package beside it, whose Workloads finds what a file of it describes.
package toolfile
