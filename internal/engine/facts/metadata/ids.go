package metadata

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Address is the address of the endpoint on ECS; AWS SDKs have it built in.
const Address = "169.254.170.2:80"

// containerID is the path element of a container. It cannot be guessed without the key of
// the task, and has the form of the ECS agent's: 32 hex digits, a hyphen, ten digits.
func containerID(key, name string) string {
	sum := sign(key, "container", name)
	return fmt.Sprintf("%s-%010d", hex.EncodeToString(sum[:16]), binary.BigEndian.Uint32(sum[16:]))
}

// credentialsID is the path element of the task's role.
func credentialsID(key string) string {
	sum := sign(key, "credentials", "")
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func sign(key, kind, name string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s/%s", kind, name)
	return mac.Sum(nil)
}

// Env returns the variables by which the software in a container finds the
// endpoint at addr (host:port), as the ECS agent sets them. key is the task's.
func Env(key, addr, container string, credentials bool) map[string]string {
	id := containerID(key, container)
	env := map[string]string{
		"ECS_CONTAINER_METADATA_URI_V4": "http://" + short(addr) + "/v4/" + id,
		"ECS_CONTAINER_METADATA_URI":    "http://" + short(addr) + "/v3/" + id,
		"ECS_AGENT_URI":                 "http://" + short(addr) + "/api/" + id,
	}
	switch {
	case !credentials:
	case addr == Address:
		env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = credentialsPath + credentialsID(key)
	default:
		// The relative form stands for the well-known address.
		env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://" + addr + credentialsPath + credentialsID(key)
	}
	return env
}

// short removes the default port of http.
func short(addr string) string {
	if addr == Address {
		return "169.254.170.2"
	}
	return addr
}

const credentialsPath = "/v2/credentials/"
