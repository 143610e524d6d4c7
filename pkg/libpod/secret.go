package libpod

import (
	"context"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings/secrets"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// secretsShown is the first Podman that gives the data of a secret out
// (ShowSecret); older ones take no notice of the question.
var secretsShown = semver.MustParse("4.7.0")

// Secret returns the data of a secret of `podman secret create`. Class NotFound if
// there is none of that name or id; Other on servers before 4.7, which give no
// data out. The data is in no error.
func (c *Client) Secret(ctx context.Context, name string) ([]byte, error) {
	const op = "read secret"
	if c.version.LT(secretsShown) {
		return nil, &Error{Op: op, Object: name, Class: Other, Cause: "Podman " + c.version.String() +
			" does not give secrets out, 4.7 is the first that does: keep it in a file (file:/PATH), a systemd credential (credential:NAME) or behind a program (command:/PROGRAM)"}
	}
	var found *entities.SecretInfoReport
	err := c.ask(ctx, op, name, func(ctx context.Context) (err error) {
		found, err = secrets.Inspect(ctx, name, new(secrets.InspectOptions).WithShowSecret(true))
		return err
	})
	if err != nil {
		return nil, err
	}
	return []byte(found.SecretData), nil
}
