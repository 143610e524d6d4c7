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

// interval is the polling interval.
const interval = 25 * time.Millisecond

// Until polls a condition that nothing reports, such as the end of another user's
// process. It returns true when it holds, and false after Patience.
func Until(holds func() bool) bool {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			return false
		}
	}
	return true
}
