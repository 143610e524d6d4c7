package kubenode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podtask/podtask/internal/kube/kubefiles"
)

// volumes are the files of a Pod's volumes, in directories of this host, one for each
// volume. Their content follows that of the objects.
type volumes struct {
	dir  string // of the Pod
	from *objects
}

// podDir is the directory of the files of a Pod.
func podDir(dir string, uid types.UID) string { return filepath.Join(dir, string(uid)) }

// write makes the files of all volumes what the objects are. All that is missing is in
// the error; the volumes that it is missing from stay as they are.
func (v *volumes) write(ctx context.Context, pod *corev1.Pod, from *reading) error {
	var errs []error
	for _, one := range pod.Spec.Volumes {
		if !kubefiles.Supported(pod, one) {
			continue
		}
		files, err := kubefiles.Files(ctx, pod, one, from)
		if err == nil {
			err = v.writeOne(one.Name, files)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", one.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (v *volumes) writeOne(name string, files []kubefiles.File) error {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return err
	}
	_, err := kubefiles.Write(filepath.Join(v.dir, name), files)
	return err
}

// mounted is the Pod with the directories in place of the volumes.
func (v *volumes) mounted(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	kept := make(map[string]bool)
	for i, one := range pod.Spec.Volumes {
		if kubefiles.Supported(pod, one) {
			kept[one.Name] = true
			kind := corev1.HostPathDirectory
			out.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(v.dir, one.Name), Type: &kind}}
		}
	}
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			for k, m := range list[i].VolumeMounts {
				list[i].VolumeMounts[k].ReadOnly = m.ReadOnly || kept[m.Name]
			}
		}
	}
	return out
}

// missing reports whether there are no files, for instance after a reboot.
func (v *volumes) missing() bool {
	_, err := os.Lstat(v.dir)
	return errors.Is(err, os.ErrNotExist)
}

// remove removes the files.
func (v *volumes) remove() error { return os.RemoveAll(v.dir) }

// followed reports whether a Pod has a volume whose content may change.
func followed(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if kubefiles.Supported(pod, v) {
			return true
		}
	}
	return false
}

func (w *podWorker) refreshVolumes(ctx context.Context) {
	said := "" // an error is logged once
	pause := w.pods.Pace.Refresh
	if w.taskID() != "" && w.volumes.missing() {
		pause = min(pause, w.pods.Pace.Steady)
	}
	for ; sleep(ctx, pause); pause = min(2*pause, w.pods.Pace.Refresh) {
		pod := w.report.known()
		if pod == nil || w.taskID() == "" || w.report.ended() {
			continue
		}
		if !followed(pod) {
			return
		}
		problem := ""
		if err := w.volumes.write(ctx, pod, w.volumes.from.reading(pod)); err != nil && ctx.Err() == nil {
			problem = err.Error()
		} else {
			pause = w.pods.Pace.Refresh
		}
		if problem != "" && problem != said {
			w.pods.Log.Warn("files of a Pod stay as they are", "pod", w.name(), "error", problem)
		}
		said = problem
	}
}

// removeOrphans removes the files of Pods that have ended while no process was there.
func removeOrphans(p *Pods) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		if p.find("", "", types.UID(e.Name())) != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.Dir, e.Name())); err != nil {
			p.Log.Warn("the files of a Pod that has ended cannot be removed", "error", err)
		}
	}
}
