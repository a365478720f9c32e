package main

import "context"

func openProgram(ctx context.Context, io streams, o *pairFlags) error { return usageError{errNoRemote} }
