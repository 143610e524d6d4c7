package proxy

import (
	"io"
	"net/http"
	"strings"
)

// wakingAfter is the Retry-After of an answer for a service that is still waking, in seconds.
const wakingAfter = "5"

// wakingPage says to people that the service wakes, and loads again by itself. It has nothing of the request and of the service.
const wakingPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="` + wakingAfter + `">
<title>Starting</title>
</head>
<body>
<h1>Starting</h1>
<p>This application was not in use and is starting now. The page loads again by itself.</p>
</body>
</html>
`

// waking answers a request that has waited for a copy of a service that wakes.
func waking(w http.ResponseWriter, r *http.Request, x *exchange) {
	const why = "the service was asleep and is still starting: come back in a moment"
	h := w.Header()
	h.Set("Retry-After", wakingAfter)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		refuse(w, x, http.StatusServiceUnavailable, why)
		return
	}
	x.fault = why
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, wakingPage)
}
