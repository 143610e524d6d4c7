package testbed

import "time"

// Patience bounds every wait, so that what never comes fails the test that waits for it
// and not the whole run. No assertion depends on it. It is longer in the virtual machine,
// which is slow, and slower beside other work.
var Patience = func() time.Duration {
	if Name() == "vm" {
		return 5 * time.Minute
	}
	return 4 * time.Minute
}()

// The polling interval grows with the time that a look takes, so that tests which wait
// leave most of the processor to those which work.
const (
	minInterval = 25 * time.Millisecond
	maxInterval = time.Second
	share       = 4 // the pause after a look, in durations of the look
)

// Until polls a condition that nothing reports, such as the end of another user's
// process. It returns true when it holds, and false after Patience.
func Until(holds func() bool) bool {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		begin := time.Now()
		if holds() {
			return true
		}
		select {
		case <-time.After(min(max(share*time.Since(begin), minInterval), maxInterval)):
		case <-limit.C:
			return false
		}
	}
}
