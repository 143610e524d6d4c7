package pod

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// TestCertificatesOfAClusterAreNotNeeded beside the token that a cluster adds to each Pod. A volume
// without a token is the user's own.
func TestCertificatesOfAClusterAreNotNeeded(t *testing.T) {
	t.Parallel()
	const token, noToken = `serviceAccountToken: {path: token}`, `downwardAPI: {items: []}`
	for _, tt := range []struct {
		name, beside, config string
		needs, warnings      int
	}{
		{"of Kubernetes", token, "kube-root-ca.crt", 0, 2},
		{"of OpenShift", token, "openshift-service-ca.crt", 0, 2},
		{"without a token", noToken, "kube-root-ca.crt", 1, 0},
		{"another ConfigMap", token, "settings", 1, 1},
	} {
		_, report, err := parsed(t, `{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}],
			volumes: [{name: v, projected: {sources: [{`+tt.beside+`}, {configMap: {name: `+tt.config+`}}]}}]}`, Options{})
		if err != nil || len(report.Needs) != tt.needs || len(report.Warnings) != tt.warnings {
			t.Errorf("%s: %v, needs %v, warnings %v", tt.name, err, report.Needs, report.Warnings)
		}
	}
}

// TestSubPathsNeedTheirVariables: no directory is called $(X).
func TestSubPathsNeedTheirVariables(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"$(SET)/d": "/srv/v/d", "$$(SET)": "/srv/$(SET)", "$(UNSET)/d": "", "$(EMPTY)": "", "$(SET)/$(EMPTY)": "",
	} {
		r, _, err := parsed(t, `{containers: [{name: c, image: x, env: [{name: SET, value: v}, {name: EMPTY, value: ""}],
			volumeMounts: [{name: h, mountPath: /m, subPathExpr: `+expr+`}]}], volumes: [{name: h, hostPath: {path: /srv}}]}`, Options{})
		switch {
		case want == "":
			problems := problemsOf(err)
			if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, "missing value for ") || !strings.HasSuffix(problems[0].Pointer, "/volumeMounts/0/subPathExpr") {
				t.Errorf("%s: %v", expr, err)
			}
		case err != nil || r.Task.Volumes[0].HostPath != want:
			t.Errorf("%s: %v, %+v", expr, err, r.Task.Volumes)
		}
	}
}

func problemsOf(err error) []taskdef.Problem {
	var invalid *taskdef.InvalidError
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Problems
}

func TestMountsDoNotHideProc(t *testing.T) {
	t.Parallel()
	for target, good := range map[string]bool{
		"/proc": false, "/proc/": false, "/proc/sys": false, "/proc/1/environ": false,
		"/proc/cpuinfo": true, "/host/proc": true, "/process": true, "/sys": true, "/dev/shm": true,
	} {
		for _, volume := range []string{"hostPath: {path: /srv}", "emptyDir: {}", "configMap: {name: m, optional: true}", "image: {reference: y}"} {
			_, _, err := parsed(t, `{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: `+target+`}]}], volumes: [{name: v, `+volume+`}]}`, Options{})
			if problems := problemsOf(err); (len(problems) == 0) != good || !good && problems[0].Fix == "" {
				t.Errorf("%s at %s: %v", volume, target, err)
			}
		}
	}
	if _, _, err := parsed(t, `{containers: [{name: c, image: x, terminationMessagePath: /proc/x}]}`, Options{}); len(problemsOf(err)) != 1 {
		t.Errorf("a termination message: %v", err)
	}
}
