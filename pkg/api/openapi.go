package api

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the description of the API, an OpenAPI 3.1 document in JSON. Its schemas
// are generated from the types of this package; a test compares it with the handlers.
//
//go:embed openapi.json
var OpenAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(OpenAPI) // the client may have disconnected
	return nil
}
