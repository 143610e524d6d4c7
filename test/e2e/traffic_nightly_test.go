//go:build e2e && nightly

//e2e:bed systemd

package e2e

import (
	"testing"
	"time"
)

// A thousand requests per second for a minute, where this host has time for them and for the clients.
func TestTrafficShiftsLoseNoneOfAThousandRequestsPerSecond(t *testing.T) {
	trafficShifts(t, 1000, time.Minute)
}
