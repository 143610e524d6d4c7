package cgroups

import (
	"context"
	"fmt"
)

// Reload makes the manager run its generators and read all units again
// (systemctl daemon-reload).
func (u *User) Reload(ctx context.Context) error {
	if err := u.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("make systemd read its units again: %w", err)
	}
	return nil
}

// ActiveState returns the state of a unit: active, inactive, failed, activating,
// deactivating or reloading. A unit that does not exist is inactive.
func (u *User) ActiveState(ctx context.Context, unit string) (string, error) {
	p, err := u.conn.GetUnitPropertyContext(ctx, unit, "ActiveState")
	if err != nil {
		return "", fmt.Errorf("ask systemd for the state of %s: %w", unit, err)
	}
	state, _ := p.Value.Value().(string)
	return state, nil
}

// StopService stops a service and waits until it has stopped. One that does not
// exist is success.
func (u *User) StopService(ctx context.Context, unit string) error {
	err := await(ctx, func(done chan<- string) error {
		_, err := u.conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
	if err != nil && !isBusError(err, "NoSuchUnit") {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	return nil
}

// RestartService stops and starts a service, and waits until it is ready.
func (u *User) RestartService(ctx context.Context, unit string) error {
	err := await(ctx, func(done chan<- string) error {
		_, err := u.conn.RestartUnitContext(ctx, unit, "replace", done)
		return err
	})
	if err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return nil
}
