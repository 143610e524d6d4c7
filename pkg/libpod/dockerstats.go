package libpod

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// DockerStats returns one sample of a running container's statistics in the form
// of Docker's API, which Podman has beside its own. The rates in it compare with
// the sample Podman took before.
func (c *Client) DockerStats(ctx context.Context, name string) (json.RawMessage, error) {
	const op = "read statistics"
	target := "http://d/v1.41/containers/" + url.PathEscape(name) + "/stats?stream=false&one-shot=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fail(ctx, op, name, err)
	}
	res, err := c.pool.RoundTrip(req)
	if err != nil {
		return nil, fail(ctx, op, name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxStats))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", res.Status)
	}
	return body, fail(ctx, op, name, err)
}

// maxStats bounds a sample in bytes.
const maxStats = 1 << 20
