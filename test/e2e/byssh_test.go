//go:build e2e

package e2e

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// Why tests are left out of a run of all tests through ssh (BY_SSH=1 hack/e2e run systemd, hack/nightly byssh).
const (
	refusedAWS     = "podtask aws env is refused on another host: the address that it prints is of that host's loopback"
	refusedNotify  = "run --notify is refused on another host: it is for the main process of a service, which is one of its machine"
	refusedTest    = "podtask test is refused on another host: it reads files beside it and sends requests to ports of its machine"
	otherProcess   = "it kills or looks for the process that it started, which through ssh is not the one that has the task"
	otherSettings  = "it prepares the settings, limits or PATH of its own process, which a command of another host does not get"
	otherConsole   = "it has a terminal, shell or PATH of its own"
	ownSSH         = "it has an SSH server of its own"
	typedElsewhere = "it types pages for one machine; docs/ssh.md is the page for another host"
)

// leftOutBySSH are the tests that such a run leaves out, with the reason.
var leftOutBySSH = map[string]string{
	"TestAFailedTestIsKept":                          refusedTest,
	"TestAFailedTestIsReported":                      refusedTest,
	"TestATestOfADefinitionPasses":                   refusedTest,
	"TestAWSClientFollowsDeployments":                refusedAWS,
	"TestAWSClientRunsAndStopsTasks":                 refusedAWS,
	"TestAWSPluginComesBackToItsShell":               refusedAWS,
	"TestAWSPluginForwardsAPort":                     refusedAWS,
	"TestAWSPluginHasAShell":                         refusedAWS,
	"TestAWSPluginThatIsKilledLeavesNoCommand":       refusedAWS,
	"TestAgentRemovesTheTaskOfAKilledRunWithRm":      otherProcess,
	"TestAgentTakesTheTaskOfAKilledOwner":            otherProcess,
	"TestAgentsAndOwnersArgueOverATask":              otherProcess,
	"TestDiskThatGetsFullInMidPull":                  otherSettings,
	"TestFullGraphRoot":                              otherSettings,
	"TestForegroundGoesOnWhenTheAgentIsKilled":       otherProcess,
	"TestHostSetup":                                  ownSSH,
	"TestKilledBeforeTheRecordLeavesCredentialsToGC": otherProcess,
	"TestKilledOwnersPassOnAllLines":                 otherProcess,
	"TestContainerThatEndsWhileNobodyOwnsIt":         otherProcess,
	"TestCredentialHelpers":                          otherSettings,
	"TestEachTaskHasItsRole":                         otherSettings,
	"TestEnvironmentThatCannotWork":                  otherSettings,
	"TestRepositoryCredentialsLetATaskIn":            "a file that others may read is refused on this machine, before there is a task whose reason could say so",
	"TestLiveServicesAreImported":                    refusedAWS,
	"TestMissingCredentialsAreNamed":                 "files of secrets are sent, and the reason names where one was looked for on the host",
	"TestNarrowScreen":                               otherConsole,
	"TestOutputReachesCloudWatchLogs":                otherProcess,
	"TestOwnerIsKilled":                              otherProcess,
	"TestPages":                                      typedElsewhere,
	"TestPublicDefinitionsAreTested":                 refusedTest,
	"TestReferenceThatCannotBeReadIsNamed":           otherSettings,
	"TestRunRefusesInDoctorsWords":                   otherSettings,
	"TestRunningTasksAreConvertedAndRun":             "the secret of a file of this machine is sent for one task, so a definition that is made of that task has it not; TestHostBySSHImportsATask does the same",
	"TestScreenOfATask":                              otherConsole,
	"TestServiceTellsItsManager":                     refusedNotify,
	"TestServiceConnect":                             refusedAWS,
	"TestShellsComplete":                             otherConsole,
	"TestStackMemberIsUpdatedAutomatically":          otherSettings,
	"TestStackOnAnotherHost":                         ownSSH,
	"TestStopWithAFullStateDirectory":                otherSettings,
	"TestTenTestsRunSideBySide":                      refusedTest,
	"TestTestsThatAreKilledLeaveNothing":             refusedTest,
	"TestTestsThatAreInterruptedLeaveNothing":        refusedTest,
	"TestTheActionRunsTests":                         refusedTest,
	"TestTheExamplesAreTested":                       refusedTest,
	"TestTrafficShiftsLoseNoRequest":                 refusedAWS,
	"TestTutorial":                                   typedElsewhere,
}

// throughSSH lets the podtask of a box work through ssh if the whole run is to, and leaves out the tests of leftOutBySSH
// and those that have an SSH server of their own.
func (b *box) throughSSH() {
	if os.Getenv("PODTASK_BY_SSH") == "" {
		return
	}
	b.t.Helper()
	name, _, _ := strings.Cut(b.t.Name(), "/")
	if why := leftOutBySSH[name]; why != "" {
		b.t.Skip(why)
	}
	if strings.HasPrefix(name, "TestHostBySSH") {
		b.t.Skip(ownSSH)
	}
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "podtask-sshd-")
		if err != nil {
			b.t.Fatal(err)
		}
		shared.sshd = startSSHD(b.t, dir)
		shared.useBySSH(b)
	})
	if shared.url == "" {
		b.t.Fatal("there is no SSH server")
	}
	b.bySSH(shared.sshd)
}

// useBySSH makes the configuration of the client that of the user, for tests that choose their own PATH. The user of the bed has
// none.
func (s *sharedSSHD) useBySSH(b *box) {
	me, err := user.Current() // ssh does not ask $HOME either
	if err != nil {
		b.t.Fatal(err)
	}
	s.config = filepath.Join(me.HomeDir, ".ssh", "config")
	if err := os.MkdirAll(filepath.Dir(s.config), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.dir, "ssh_config"), s.config); err != nil {
		b.t.Fatal(err)
	}
}
