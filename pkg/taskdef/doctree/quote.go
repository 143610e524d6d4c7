package doctree

import "strconv"

// Quote quotes text of a document for a message, cut to a readable length.
func Quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return strconv.Quote(string(r[:most])) + "..."
	}
	return strconv.Quote(s)
}
