// Package vm holds the tests that need a machine of their own: real cgroup
// limits, the kernel's out-of-memory killer, a user manager that may be
// restarted, and reboots. They run as the user of the virtual machine that
// hack/bed-vm boots, who may sudo, and one after the other: a restart of the
// user manager ends all that runs under it.
//
// Tests named TestAfterReboot... run when the machine has been booted again from
// the same disk, those named TestAfterCrash... when its power was cut besides.
package vm
