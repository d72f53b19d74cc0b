"""Bad inputs, as data: what hurried and hostile users give to every command, and what each must say.

A case is refused if it ends with exit code 1 or 2 and one line that names argument or column and
remedy, prints nothing else, changes no file, and takes less than ten seconds.
"""
