package api

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the description of the API, an OpenAPI 3.1 document in JSON. Its schemas
// are made from the types of this package; a test holds it against the handlers.
//
//go:embed openapi.json
var OpenAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(OpenAPI) // a client that has gone needs no answer
}
