package kubenode

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ParseLabels reads labels as KEY=VALUE,... All problems are in the error.
func ParseLabels(text string) (map[string]string, error) {
	out := make(map[string]string)
	var errs []error
	for _, item := range items(text) {
		k, v, ok := strings.Cut(item, "=")
		if problems := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); !ok || len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a label as KEY=VALUE %s", item, strings.Join(problems, "; ")))
			continue
		}
		out[k] = v
	}
	return out, errors.Join(errs...)
}

// ParseTaints reads taints as KEY[=VALUE]:EFFECT,... All problems are in the error.
func ParseTaints(text string) (out []corev1.Taint, err error) {
	var errs []error
	for _, item := range items(text) {
		word, effect, _ := strings.Cut(item, ":")
		k, v, _ := strings.Cut(word, "=")
		t := corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)}
		problems := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...)
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			problems = append(problems, "the effect is NoSchedule, PreferNoSchedule or NoExecute")
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a taint as KEY=VALUE:EFFECT: %s", item, strings.Join(problems, "; ")))
			continue
		}
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

// items splits a list at its commas and leaves out empty items.
func items(text string) (out []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
