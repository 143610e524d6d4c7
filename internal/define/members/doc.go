// Package members holds what becomes of the members of the formats that podtask reads: one row for each member of
// the public schema of a format. The package of a format has its table; its tests hold the table against the schema,
// and its warnings, refusals and pages are made from it. `podtask explain` prints the rows.
//
// The package is pure: tables and functions over them.
package members
