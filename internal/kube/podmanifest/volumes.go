package podmanifest

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

// Volumes are the files of a Pod's volumes, in directories of this host, one for each
// volume. Their content follows that of the objects.
type Volumes struct {
	Dir  string // of the Pod
	From *Objects
}

// PodDir is the directory of the files of a Pod.
func PodDir(dir string, uid types.UID) string { return filepath.Join(dir, string(uid)) }

// Write makes the files of all volumes what the objects are. All that is missing is in
// the error; the volumes that it is missing from stay as they are.
func (v *Volumes) Write(ctx context.Context, pod *corev1.Pod, from *Reading) error {
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

func (v *Volumes) writeOne(name string, files []kubefiles.File) error {
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return err
	}
	_, err := kubefiles.Write(filepath.Join(v.Dir, name), files)
	return err
}

// mounted is the Pod with the directories in place of the volumes.
func (v *Volumes) mounted(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	kept := make(map[string]bool)
	for i, one := range pod.Spec.Volumes {
		if kubefiles.Supported(pod, one) {
			kept[one.Name] = true
			kind := corev1.HostPathDirectory
			out.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(v.Dir, one.Name), Type: &kind}}
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

// Missing reports whether there are no files, for instance after a reboot.
func (v *Volumes) Missing() bool {
	_, err := os.Lstat(v.Dir)
	return errors.Is(err, os.ErrNotExist)
}

// Remove removes the files.
func (v *Volumes) Remove() error { return os.RemoveAll(v.Dir) }

// Followed reports whether a Pod has a volume whose content may change.
func Followed(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if kubefiles.Supported(pod, v) {
			return true
		}
	}
	return false
}
