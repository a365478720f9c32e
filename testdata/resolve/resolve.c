// resolve NAME...: print the IPv4 addresses that this C library finds for each name, sorted,
// one name per line. Pods find names by their libraries, which differ: musl asks all servers
// at once and takes the first answer, for example.
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int byAddress(const void *a, const void *b) { return memcmp(a, b, sizeof(struct in_addr)); }

int main(int argc, char **argv) {
	int failed = 0;
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
		int err = getaddrinfo(argv[i], NULL, &hints, &found);
		if (err != 0) {
			fprintf(stderr, "%s: %s\n", argv[i], gai_strerror(err));
			failed = 1;
			continue;
		}
		struct in_addr all[256];
		size_t n = 0;
		for (struct addrinfo *a = found; a != NULL && n < 256; a = a->ai_next)
			all[n++] = ((struct sockaddr_in *)a->ai_addr)->sin_addr;
		freeaddrinfo(found);
		qsort(all, n, sizeof all[0], byAddress);
		for (size_t j = 0; j < n; j++)
			printf("%s%s", j > 0 ? " " : "", inet_ntoa(all[j]));
		printf("\n");
	}
	return failed;
}
