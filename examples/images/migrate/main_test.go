package main

import "testing"

func TestExitCode(t *testing.T) {
	t.Setenv("MIGRATE_STEP_TIME", "1ns")
	for _, tc := range []struct {
		steps, code string
		want        int
	}{{"", "", 0}, {"1", "7", 7}, {"none", "", 2}, {"1", "x", 2}} {
		t.Setenv("MIGRATE_STEPS", tc.steps)
		t.Setenv("MIGRATE_EXIT_CODE", tc.code)
		if got := run(); got != tc.want {
			t.Errorf("MIGRATE_STEPS=%q MIGRATE_EXIT_CODE=%q: %d, want %d", tc.steps, tc.code, got, tc.want)
		}
	}
}
