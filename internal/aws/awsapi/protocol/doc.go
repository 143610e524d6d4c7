// Package protocol has what the operations of all services of AWS share: a table of members for each request, which says what
// becomes of them, the JSON and the query protocol, failures, pages of lists, times. It knows no operation.
package protocol
