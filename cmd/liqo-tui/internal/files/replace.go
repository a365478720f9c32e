// Package files reads and writes the files of commands: pairs to connect, the files of two
// admins, gateway templates, and what the wizard was answered.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file of the user's own, whole or not at all, also where there was another
// one that others may read.
func Replace(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		if removed := os.Remove(temporary.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
