"""``python -m tools.make_vectors java|kio|kafka-python``: random messages that others wrote.

``java`` runs Kafka's own generated classes (needs a JDK and Maven), ``kio`` the classes of kio,
which must be installed: run it once with each release of kio that is wanted, the newest first;
``kafka-python`` the classes of kafka-python 3, after ``java``, with the same values.
The tests need neither: what is made is committed, see `vectors_file`.
"""

import sys

from tools.make_vectors.vectors_file import read_vectors, replace_vectors


def main(arguments: list[str]) -> int:
    if arguments == ["java"]:
        from tools.make_vectors.java_classes import java_vectors

        replace_vectors("kafka ", list(java_vectors()))
    elif arguments == ["kio"]:
        from tools.make_vectors.kio import kio_vectors, kio_writer

        written = [each for each in read_vectors() if each.writer.startswith("kio")]
        others = {each.layout for each in written if each.writer != kio_writer()}
        vectors = kio_vectors(lambda *layout: layout in others)
        replace_vectors(kio_writer(), list(vectors))
    elif arguments == ["kafka-python"]:
        from tools.make_vectors.kafka_python import kafka_python_vectors

        replace_vectors("kafka-python", list(kafka_python_vectors()))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
