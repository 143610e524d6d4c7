package convert

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
)

// versionRounds is the number of rounds of PBKDF2. A guess at a secret, whose name everyone sees who lists secrets, then takes some milliseconds.
const versionRounds = 50_000

// Version returns twelve hexadecimal digits that tell texts of one name apart. They are part of the name under which the host
// keeps a text, which may be a secret, so that a revision keeps its own.
func Version(name string, text []byte) string {
	// FIPS 140 mode refuses shorter salts and keys.
	key, err := pbkdf2.Key(sha256.New, string(text), []byte("podtask version of "+name), versionRounds, sha256.Size)
	if err != nil {
		panic(err) // it depends on the lengths above only
	}
	return hex.EncodeToString(key[:6])
}
